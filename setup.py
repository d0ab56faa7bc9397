"""Map the top-level folders graphs/ and tools/ into the package taograph.

They stand at the top of the repository because that is where a reader looks for
them; installed, they are taograph.graphs and taograph.tools, so that nothing
called "graphs" or "tools" lands in a user's site-packages.
"""

from setuptools import find_packages, setup

package_dir = {"taograph": "src/taograph"}
for sub in find_packages("src/taograph"):
    package_dir[f"taograph.{sub}"] = f"src/taograph/{sub.replace('.', '/')}"
for top in ("graphs", "tools"):
    for sub in ["", *find_packages(top)]:
        name = ".".join(filter(None, ["taograph", top, sub]))
        package_dir[name] = name.removeprefix("taograph.").replace(".", "/")
setup(packages=list(package_dir), package_dir=package_dir)
