-- Which secrets were taken out of the folder and can still be read in its history?
select split_part(secret, '~', 1) as secret, memory_id, min(valid_from)::date as written,
    max(coalesce(valid_to, valid_from))::date as taken_out, arg_min(commit, version) as first_commit
from (select *, unnest(secrets) as secret from versions) v
where v.secret not in (select unnest(secrets) from versions where valid_to is null)
group by v.secret, memory_id
order by taken_out desc, memory_id, v.secret
