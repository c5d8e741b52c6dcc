# The names of mk.extend.verbs, for type checkers and for the module itself.

from memkit.cli.change import KeywordOption as KeywordOption
from memkit.cli.change import Saving as Saving
from memkit.cli.change import TextArgument as TextArgument
from memkit.cli.change import repair_verb as repair_verb
from memkit.cli.common import DatesOption as DatesOption
from memkit.cli.common import FormatsOption as FormatsOption
from memkit.cli.common import HiddenOption as HiddenOption
from memkit.cli.common import HtmlOption as HtmlOption
from memkit.cli.common import JsonOption as JsonOption
from memkit.cli.common import JsonRowsOption as JsonRowsOption
from memkit.cli.common import PathArgument as PathArgument
from memkit.cli.common import Reading as Reading
from memkit.cli.common import RevOption as RevOption
from memkit.cli.common import SinceOption as SinceOption
from memkit.cli.common import grouped as grouped
from memkit.cli.common import load as load
from memkit.cli.common import print_json as print_json
from memkit.cli.common import show as show
