"""The data sets of the paper's tables, and the smaller ones that our own tables add.

Sizes and sha256 sums of the archives are those that TensorFlow Datasets publishes; those of CIFAR, STL-10, MNIST,
Fashion-MNIST and Imagenette belong to the md5 sums that the authors or torchvision publish. Tiny-ImageNet's authors
publish none; its sum is the one that many projects record.
"""

from pathlib import Path

from spice.benchmark.datasets import cifar, digits, folders, idx, stl10, tiny_imagenet
from spice.benchmark.datasets.card import Card, Remote
from spice.benchmark.datasets.dataset import Counts
from spice.errors import UserError

_TORONTO = "https://www.cs.toronto.edu/~kriz"
_FASTAI = "https://s3.amazonaws.com/fast-ai-imageclas"
_ZALANDO = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CVDF = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FROM_IMAGENET = "ask for ImageNet (ILSVRC 2012) at https://image-net.org and give its folder with --from"


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split(", "))


def _idx_files(address: str, *published: tuple[int, str]) -> tuple[Remote, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        Remote(f"{address}/{name}-ubyte.gz", size, sha256)
        for name, (size, sha256) in zip(names, published, strict=True)
    )


STL10 = Card(
    name="stl10",
    title="STL-10",
    classes=_listed("airplane, bird, car, cat, deer, dog, horse, monkey, ship, truck"),
    clusters=10,
    pixels="96 x 96",
    counts=Counts(train=5_000, test=8_000, unlabeled=100_000),
    readers=(stl10.read,),
    files=(
        Remote(
            "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            2_640_397_119,
            "f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
        ),
    ),
)
CIFAR10 = Card(
    name="cifar10",
    title="CIFAR-10",
    classes=_listed("airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"),
    clusters=10,
    pixels="32 x 32",
    counts=Counts(train=50_000, test=10_000),
    readers=(cifar.read_cifar10_binary, cifar.read_cifar10_python, folders.read_split),
    files=(
        Remote(
            f"{_TORONTO}/cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
)
CIFAR100_20 = Card(
    name="cifar100-20",
    title="CIFAR-100-20",
    classes=_listed(
        "aquatic_mammals, fish, flowers, food_containers, fruit_and_vegetables, household_electrical_devices, "
        "household_furniture, insects, large_carnivores, large_man-made_outdoor_things, "
        "large_natural_outdoor_scenes, large_omnivores_and_herbivores, medium_mammals, non-insect_invertebrates, "
        "people, reptiles, small_mammals, trees, vehicles_1, vehicles_2"
    ),
    clusters=20,
    pixels="32 x 32",
    counts=Counts(train=50_000, test=10_000),
    readers=(cifar.read_cifar100_binary, cifar.read_cifar100_python),
    files=(
        Remote(
            f"{_TORONTO}/cifar-100-binary.tar.gz",
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
)
IMAGENET10 = Card(
    name="imagenet-10",
    title="ImageNet-10",
    classes=_listed(
        "n02056570, n02085936, n02128757, n02690373, n02692877, n03095699, n04254680, n04285008, n04467665, n07747607"
    ),
    clusters=10,
    pixels="any",
    counts=Counts(train=13_000),
    readers=(folders.read_imagenet,),
    advice=_FROM_IMAGENET,
)
IMAGENET_DOG = Card(
    name="imagenet-dog",
    title="ImageNet-Dogs-15",
    classes=_listed(
        "n02085936, n02086646, n02088238, n02091467, n02097130, n02099601, n02101388, n02101556, n02102177, "
        "n02105056, n02105412, n02105855, n02107142, n02110958, n02112137"
    ),
    clusters=15,
    pixels="any",
    counts=Counts(train=19_500),
    readers=(folders.read_imagenet,),
    advice=_FROM_IMAGENET,
)
TINY_IMAGENET = Card(
    name="tiny-imagenet",
    title="Tiny-ImageNet-200",
    classes=(),
    clusters=200,
    pixels="64 x 64",
    counts=Counts(train=100_000, test=10_000),
    readers=(tiny_imagenet.read,),
    files=(
        Remote(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            248_100_043,
            "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        ),
    ),
)
FASHION_MNIST = Card(
    name="fashion-mnist",
    title="Fashion-MNIST",
    classes=_listed("T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot"),
    clusters=10,
    pixels="28 x 28",
    counts=Counts(train=60_000, test=10_000),
    readers=(idx.read_idx, idx.read_npz),
    files=_idx_files(
        _ZALANDO,
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
    places=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's dataset-fashion-mnist
    first_labels=(9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
)
MNIST = Card(
    name="mnist",
    title="MNIST",
    classes=tuple("0123456789"),
    clusters=10,
    pixels="28 x 28",
    counts=Counts(train=60_000, test=10_000),
    readers=(idx.read_idx, idx.read_npz),
    files=_idx_files(
        _CVDF,
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    first_labels=(5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
)
IMAGENETTE = Card(
    name="imagenette",
    title="Imagenette",
    classes=_listed(
        "n01440764 tench, n02102040 English springer, n02979186 cassette player, n03000684 chain saw, "
        "n03028079 church, n03394916 French horn, n03417042 garbage truck, n03425413 gas pump, "
        "n03445777 golf ball, n03888257 parachute"
    ),
    clusters=10,
    pixels="160 or more",
    counts=Counts(train=9_469, test=3_925),
    readers=(folders.read_split,),
    files=(
        Remote(
            f"{_FASTAI}/imagenette2-160.tgz",
            98_948_031,
            "88daccb09b6fce93f45e6c09ddeb269cce705549e6bff322092a2a5a11489863",
        ),
    ),
)
IMAGEWOOF = Card(
    name="imagewoof",
    title="Imagewoof",
    classes=_listed(
        "n02086240 Shih-Tzu, n02087394 Rhodesian ridgeback, n02088364 beagle, n02089973 English foxhound, "
        "n02093754 Australian terrier, n02096294 Border terrier, n02099601 golden retriever, "
        "n02105641 Old English sheepdog, n02111889 Samoyed, n02115641 dingo"
    ),
    clusters=10,
    pixels="160 or more",
    counts=Counts(train=9_025, test=3_929),
    readers=(folders.read_split,),
    files=(
        Remote(
            f"{_FASTAI}/imagewoof2-160.tgz",
            92_560_471,
            "663c22f69c2802d85e2a67103c017e047096702ffddf9149a14011b7002539bf",
        ),
    ),
)
FRUITS = Card(
    name="fruits-15",
    title="Fruits-360, 15 kinds",
    classes=_listed(
        "avocado, banana, blueberry, carambula, cauliflower, corn, eggplant, kiwi, lemon, orange, pineapple, "
        "pomegranate, raspberry, strawberry, walnut"
    ),
    clusters=15,
    pixels="100 x 100",
    counts=Counts(train=3_000),
    readers=(folders.read_flat,),
    advice="a selection from https://github.com/fruits-360: give one folder per kind, or an archive of it, with --from",
)
DIGITS = Card(
    name="digits",
    title="digits of scikit-learn",
    classes=tuple("0123456789"),
    clusters=10,
    pixels="8 x 8",
    counts=Counts(train=1_797),
    readers=(digits.read,),
    places=(digits.PLACE,),
)

_OF_THE_PAPER = (STL10, CIFAR10, CIFAR100_20, IMAGENET10, IMAGENET_DOG, TINY_IMAGENET)
_FURTHER = (FASHION_MNIST, MNIST, IMAGENETTE, IMAGEWOOF, FRUITS, DIGITS)
CATALOG: dict[str, Card] = {card.name: card for card in (*_OF_THE_PAPER, *_FURTHER)}


def card_of(name: str) -> Card:
    """The data set called `name`."""
    if name not in CATALOG:
        raise UserError(f"there is no data set {name}: choose one of {', '.join(CATALOG)}")
    return CATALOG[name]
