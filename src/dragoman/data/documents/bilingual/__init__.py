"""Files with texts and their translations: PO, XLIFF, TMX, TBX and Qt Linguist."""
