-- Which secrets were taken out of the folder and can still be read in its history?
select split_part(s.secret, '~', 1) as secret, memory_id, min(v.valid_from)::date as written,
    max(coalesce(v.valid_to, v.valid_from))::date as taken_out, arg_min(v.commit, version) as first_commit
from version_secrets s join versions v using (memory_id, version)
where s.secret not in (
    select secret from version_secrets join versions using (memory_id, version) where valid_to is null)
group by s.secret, memory_id
order by taken_out desc, memory_id, s.secret
