"""How well one search answers, or two: metrics of hits against judgements, with statistics over users."""
