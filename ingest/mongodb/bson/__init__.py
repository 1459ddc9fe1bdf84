"""A reader of BSON that works on many documents at once: elements, texts of values, documents as columns."""
