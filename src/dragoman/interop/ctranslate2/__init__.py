"""CTranslate2: translation and language models in its binary format, both ways, and Argos packages that hold one."""
