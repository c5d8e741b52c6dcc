-- Which logs have a name whose day is far from the commit that brought them?
-- $days = 300
select d.date, v.valid_from::date as committed, abs(date_diff('day', d.date, v.valid_from::date)) as days_apart,
    v.memory_id, v.title, v.commit
from versions v join documents d using (memory_id)
where v.version = 1 and not v.at_start and d.kind in ('daily_log', 'session')
    and abs(date_diff('day', d.date, v.valid_from::date)) > $days::integer
order by days_apart desc, v.memory_id
