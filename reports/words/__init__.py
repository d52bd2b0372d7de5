"""What results say in short text: numbers, names, datasets, claims, and several audits judged together. Imports results only."""
