-- Which dated memories are oldest on the day of as_of, and what would decay (e-folding, 60 days) leave of them?
select memory_id, kind, importance,
    {age_days} as age_days,
    {factor} as factor,
    title, text
from memories
where coalesce(updated_at, created_at) is not null
order by age_days desc, memory_id
