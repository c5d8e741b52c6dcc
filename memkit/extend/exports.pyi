# The names of mk.extend.exports, for type checkers and for the module itself.

from memkit.change.export import Group as Group
from memkit.change.export import Job as Job
from memkit.change.export import bodies as bodies
from memkit.change.export import end_or_none as end_or_none
from memkit.change.export import name_of as name_of
from memkit.change.export import pages as pages
from memkit.change.export import place_head as place_head
from memkit.change.export import refuse_unjudged as refuse_unjudged
from memkit.change.export import time_text as time_text
from memkit.change.export import vault_head as vault_head
