// Holds GraphQL exchanges against GitHub's own schema (npm @octokit/graphql-schema): reads JSON lines {request, answer} on standard
// input, prints one line for each thing that does not fit. The query is validated, its variables are coerced, and the answer is what
// executing the query over that very answer gives: unknown fields, wrong scalars, nulls and missing fields show.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";

const require = createRequire(`${process.argv[2]}/`);
const { buildSchema, execute, getVariableValues, parse, validate } = require("graphql");
const idl = readFileSync(`${process.argv[2]}/node_modules/@octokit/graphql-schema/schema.graphql`, "utf8");
const schema = buildSchema(idl, { assumeValid: true });
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { request, answer } = JSON.parse(line);
  const document = parse(request.query);
  const wrong = validate(schema, document).map((error) => error.message);
  const operation = document.definitions[0];
  const variables = getVariableValues(schema, operation.variableDefinitions ?? [], request.variables);
  wrong.push(...(variables.errors ?? []).map((error) => error.message));
  if (wrong.length === 0) {
    const found = await execute({ schema, document, rootValue: answer.data, variableValues: request.variables });
    wrong.push(...(found.errors ?? []).map((error) => error.message));
    if (!isDeepStrictEqual(JSON.parse(JSON.stringify(found.data)), answer.data)) wrong.push("the answer holds what was not asked for");
  }
  for (const message of wrong) console.log(`${request.query.slice(0, 60)}: ${message}`);
}
