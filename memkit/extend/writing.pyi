# The names of mk.extend.writing, for type checkers and for the module itself.

from memkit.base.params import AsOf as AsOf
from memkit.base.params import check_choice as check_choice
from memkit.base.params import check_value as check_value
from memkit.base.params import describe as describe
from memkit.change.draft import Draft as Draft
from memkit.change.draft import Operations as Operations
from memkit.change.draft import checked as checked
from memkit.change.draft import missing as missing
from memkit.change.draft import stamp as stamp
from memkit.change.pages import LayoutStore as LayoutStore
