"""Generators of data whose mechanics are known. Frames are Polars.

The functions are imported here by name: each shadows the module it lives in, so `eh.synthetic.platform(...)` is a call.
"""

from evenhand.synthetic.corpus import Catalogue as Catalogue
from evenhand.synthetic.corpus import Corpus as Corpus
from evenhand.synthetic.corpus import Maker as Maker
from evenhand.synthetic.corpus import catalogue as catalogue
from evenhand.synthetic.corpus import corpus as corpus
from evenhand.synthetic.marketplace import market as market
from evenhand.synthetic.marketplace import marketplace as marketplace
from evenhand.synthetic.platform import Platform as Platform
from evenhand.synthetic.platform import platform as platform
from evenhand.synthetic.platform import trial as trial
from evenhand.synthetic.viewpoints import viewpoint_weights as viewpoint_weights
from evenhand.synthetic.viewpoints import viewpoints as viewpoints
