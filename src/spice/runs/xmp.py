"""XMP sidecars (ISO 16684-1), in which photo programs find the name of a group as a keyword."""

from xml.etree import ElementTree  # only written, never read

_NAMESPACES = {
    "x": "adobe:ns:meta/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "lr": "http://ns.adobe.com/lightroom/1.0/",
    "digiKam": "http://www.digikam.org/ns/1.0/",
}
for _prefix, _uri in _NAMESPACES.items():
    ElementTree.register_namespace(_prefix, _uri)


def sidecar(keyword: str) -> ElementTree.Element:
    """The keyword for all programs (dc:subject), and as a tag below `spice` for Lightroom and digiKam."""
    root = ElementTree.Element(_name("x", "xmpmeta"))
    about = {_name("rdf", "about"): ""}
    description = ElementTree.SubElement(
        ElementTree.SubElement(root, _name("rdf", "RDF")), _name("rdf", "Description"), about
    )
    _list(description, _name("dc", "subject"), "Bag", keyword)
    _list(description, _name("lr", "hierarchicalSubject"), "Bag", f"spice|{keyword.replace('|', '_')}")
    _list(description, _name("digiKam", "TagsList"), "Seq", f"spice/{keyword.replace('/', '_')}")
    return root


def _list(parent: ElementTree.Element, name: str, kind: str, entry: str) -> None:
    entries = ElementTree.SubElement(ElementTree.SubElement(parent, name), _name("rdf", kind))
    ElementTree.SubElement(entries, _name("rdf", "li")).text = entry


def _name(prefix: str, name: str) -> str:
    return f"{{{_NAMESPACES[prefix]}}}{name}"
