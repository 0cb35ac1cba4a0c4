"""Networks that tools/zoo exports: small ones, one for each thing that an exporter does to parameters, real ones of
torchvision, timm, transformers, diffusers and others, and hand-written ones, small in size, with random weights."""
import networks_fields  # noqa: F401
import networks_libraries  # noqa: F401
import networks_losses  # noqa: F401
import networks_lucidrains  # noqa: F401
import networks_modules  # noqa: F401
import networks_modules_planes  # noqa: F401
import networks_other  # noqa: F401
import networks_research  # noqa: F401
import networks_research_losses  # noqa: F401
import networks_small  # noqa: F401
import networks_timm  # noqa: F401
import networks_torchvision  # noqa: F401
import networks_transformers  # noqa: F401
import networks_transformers_kinds  # noqa: F401
import networks_transformers_more  # noqa: F401
from networks_base import BATCH, NETWORKS, SMALL  # noqa: F401
