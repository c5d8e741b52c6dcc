-- Which dated memories are oldest on the day of as_of, and what would decay (e-folding, 60 days) leave of them?
select memory_id, kind, importance, date_diff('day', coalesce(updated_at, created_at), $as_of) as age_days,
    round(exp(-greatest(date_diff('day', coalesce(updated_at, created_at), $as_of), 0) / 60.0), 3) as factor, title, text
from memories
where coalesce(updated_at, created_at) is not null
order by age_days desc, memory_id
limit 50
