from evenhand import attention as attention
from evenhand import distances as distances
from evenhand import metrics as metrics
from evenhand import synthetic as synthetic
from evenhand.audits import read as read
from evenhand.audits.advise import advise as advise
from evenhand.audits.agreement import agreement as agreement
from evenhand.audits.compare import compare as compare
from evenhand.audits.criteria import criteria as criteria
from evenhand.audits.decompose import decompose as decompose
from evenhand.audits.exposure import exposure as exposure
from evenhand.audits.inequality import inequality as inequality
from evenhand.audits.outcome_test import outcome_test as outcome_test
from evenhand.audits.pairwise import pairwise as pairwise
from evenhand.audits.prefix import prefix as prefix
from evenhand.audits.recalibrator import OutcomeRecalibrator as OutcomeRecalibrator
from evenhand.audits.recommender import recommender as recommender
from evenhand.audits.sensitivity import sensitivity as sensitivity
from evenhand.audits.sources import sources as sources
from evenhand.errors import DataWarning as DataWarning
from evenhand.errors import EvenhandError as EvenhandError
from evenhand.errors import UndefinedWarning as UndefinedWarning
from evenhand.results import Result as Result
from evenhand.views.bins import log_bins as log_bins
from evenhand.views.bins import quantile_bins as quantile_bins
from evenhand.views.groups import rollup as rollup

__version__: str
