"""LibreTranslate with Argos packages, without a network.

    python libretranslate_server.py PACKAGE PACKAGE --port 8000

Runs in an environment of its own with `pip install libretranslate==1.9.6`. The packages are exports of
`dragoman export --format argos`; with fewer than two, the program would download others. Its sentence splitter would be
downloaded, too: it is replaced by none, which costs no time.
"""

import argparse
import sys

from argostranslate import package, sbd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--port", default="8000")
    parser.add_argument("--threads", default="4", help="threads that answer requests; 4 is the default of the program")
    arguments = parser.parse_args()
    for one in arguments.packages:
        package.install_from_path(one)
    sbd.MiniSBDSentencizer.split_sentences = lambda _, text: [text]
    from libretranslate.main import main as serve

    sys.argv = ["libretranslate", "--port", arguments.port, "--threads", arguments.threads, "--load-only", "en,de"]
    sys.argv += ["--disable-files-translation", "--disable-web-ui"]
    serve()


if __name__ == "__main__":
    main()
