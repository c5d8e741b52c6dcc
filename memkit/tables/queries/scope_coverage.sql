-- How much is there for each scope and owner, and how recent is it?
select format, coalesce(scope, user_id, '(none)') as scope_or_user, count(*) as memories,
    sum(length(text))::bigint as chars, max(coalesce(updated_at, created_at))::date as latest
from memories
group by all
order by memories desc, format, scope_or_user
