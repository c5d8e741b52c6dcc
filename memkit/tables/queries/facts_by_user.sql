-- How many facts has each user, by type and importance, and how many had expired on the day of as_of?
select user_id, kind, importance, count(*) as facts,
    count(*) filter (where {expired}) as expired
from memories
where format = 'facts' and kind is not null
group by all
order by user_id, kind, importance
