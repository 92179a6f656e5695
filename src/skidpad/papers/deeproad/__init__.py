"""DeepRoad (2018): Table 2, the number of inconsistent behaviours by model, weather and error bound."""
