"""Style of the paper's figures: colors, lines and fonts."""

# Distinct with any color vision, and in gray.
SELECTED, TRUE, OTHERS, INK = "#1132a0", "#ba4e25", "#b9b4ad", "#2a2825"
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "spice",  # the same run gives the same file
}
