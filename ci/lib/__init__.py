"""The programs behind the commands of ci/, for Debian's Python, with their tests beside them."""
