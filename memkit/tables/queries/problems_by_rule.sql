-- What is wrong, by rule, with one example each?
select severity, rule, count(*) as problems, min(message) as example
from problems
group by severity, rule
order by case severity when 'error' then 1 when 'warning' then 2 else 3 end, problems desc, rule
