"""Sources of images, and the stored results of scanning them."""
