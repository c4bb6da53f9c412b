"""What every build does with images: scan, compare, embed, render."""
