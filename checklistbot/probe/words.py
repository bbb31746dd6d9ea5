"""The 512 words that canaries, tags and filler text are made of: short, common, one token in most vocabularies."""

from __future__ import annotations

from typing import Final

WORDS: Final[tuple[str, ...]] = tuple(
    """
apple arrow autumn bacon badge bamboo banana barrel basin basket battery beach beacon beaver berry bicycle birch blanket blossom border
bottle bowl branch brass bread breeze brick bridge broom brush bucket bubble butter button cabin cabbage cable cactus camel camera candle
canoe canvas canyon carbon carpet carrot castle cattle cedar cellar chain chair chalk charm cheese cherry chess chest chicken chimney circle
citrus clay cliff clock cloth cloud clover coast cobalt coffee coin comet compass copper coral cork corner cotton couch cousin cradle crane
crater cream creek cricket crown crystal cube curtain cushion cycle daisy dance dawn deck deer delta denim desert desk diamond dinner dish
dolphin donkey door dragon drawer dream drum duck dust eagle earth easel echo elbow elder elephant ember emerald engine evening fabric
falcon family farm feather fence fern ferry fiddle field figure filter finger fire fish flag flame flask flint flock floor flour flower
flute foam fog forest fork fossil fountain fox frame frost fruit funnel galaxy garage garden garlic gate ghost giant ginger glacier glass
globe glove goat gold goose grain granite grape grass gravel guitar gypsum hammer hammock harbor harp harvest hawk hazel heart hedge
helmet herb heron hill hinge honey hook horn horse hotel hour house hut ice igloo index ink iris iron island ivory ivy jacket jade jaguar
jar jasmine jelly jewel jigsaw juice jungle juniper kayak kernel kettle key king kitchen kite kitten knee knife knot label lace ladder
lady lagoon lake lamp lantern laser lava lawn leaf leather lemon lens letter lever lilac lily lime linen lion lizard lobby locket lotus
lumber lunch magnet mango maple marble margin market mask meadow melon mercury metal meteor mill mineral mint mirror mist mitten moon
morning mosaic moss moth motor mountain mouse muffin museum mushroom music mustard napkin nectar needle nest night north nose notebook
nugget nutmeg oak oasis oat ocean octave office olive onion opal opera orange orbit orchard orchid organ otter oven owl oxygen oyster
paddle page paint palace palm panda panel paper parade parcel park parrot pasta path peach peacock pear pearl pebble pencil pepper piano
picnic pigeon pillow pilot pine pipe planet plate plaza plum pocket poem pond pony poplar portrait potato prairie prism pumpkin puppet
puzzle pyramid quartz queen quilt rabbit radar radio raft rain raven razor reef ribbon rice ring river road robin rocket roof room rope
rose ruby rug saddle sail salad salmon salt sand sapphire sauce scarf school scissors sea seal season shadow sheep shelf shell shield
ship shirt shoe silk silver sink sky sled slope smoke snow soap socket sofa soil soup spark sphere spider spice spinach spiral spoon
spring square squirrel stable stage stamp star station statue steam steel stone storm stove straw stream street string sugar summer sun
swan sweater sword syrup table tail tea temple tent theater thread throne thunder tiger timber toast tomato tower town trail train tree
triangle trumpet tulip tunnel turkey turtle twig valley vase velvet village vine violet violin volcano wagon walnut water wave wax weaver
wheat wheel whistle willow window winter wire wolf wood wool yard yarn zebra zinc
""".split()  # noqa: SIM905 - a list of 512 strings is not more readable.
)[:512]
BITS: Final = 9
assert len(set(WORDS)) == 512, len(set(WORDS))  # noqa: S101 - the arithmetic of false alarms rests on it.
