"""Documents that are XML files in a zip archive: DOCX, PPTX, ODT, ODP and EPUB."""
