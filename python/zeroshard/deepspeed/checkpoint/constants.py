"""deepspeed.checkpoint.constants: the names inside DeepSpeed's own checkpoint files, for those who read them.

ZeroShard's files have others (docs/python.md, "Checkpoints").
"""
from .._lazy import lazy

__getattr__, __dir__ = lazy(__name__)

# In *_optim_states.pt.
OPTIMIZER_STATE_DICT = "optimizer_state_dict"
FP32_GROUPS, FP32_FLAT_GROUPS, FP32_WEIGHT_KEY = "fp32_groups", "fp32_flat_groups", "fp32"
BASE_OPTIMIZER_STATE, BASE_OPTIMIZER_STATE_STEP = "base_optimizer_state", "base_optimizer_state_step"
SINGLE_PARTITION_OF_FP32_GROUPS = "single_partition_of_fp32_groups"
PARAM_GROUPS, GROUP_PADDINGS, PARTITION_COUNT = "param_groups", "group_paddings", "partition_count"
ZERO_STAGE, CLIP_GRAD, LOSS_SCALER = "zero_stage", "clip_grad", "loss_scaler"

# In *_model_states.pt.
PARAM, PARAM_SHAPES, BUFFER_NAMES = "param", "param_shapes", "buffer_names"
FROZEN_PARAM_SHAPES, FROZEN_PARAM_FRAGMENTS = "frozen_param_shapes", "frozen_param_fragments"
DS_VERSION = "ds_version"

# The files' own names.
MODEL_FILE_PREFIX, ZERO_FILE_PREFIX, LAYER_FILE_PREFIX = "mp_rank_", "zero_pp_rank_", "layer_"
OPTIM_FILE_SUFFIX, MODEL_FILE_SUFFIX = "_optim_states.pt", "_model_states.pt"
BF16_ZERO_FILE_PREFIX, FP16_ZERO_FILE_PREFIX = f"bf16_{ZERO_FILE_PREFIX}", f"fp16_{ZERO_FILE_PREFIX}"

# Universal checkpoints.
UNIVERSAL_CHECKPOINT_INFO = "universal_checkpoint_info"
UNIVERSAL_CHECKPOINT_VERSION_KEY, UNIVERSAL_CHECKPOINT_VERSION_VALUE = "universal_checkpoint_version", 0.4
CAT_DIM, PARAM_SLICE_MAPPINGS, PARAM_N_SUB_PARAMS = "cat_dim", "param_slice_mappings", "param_n_sub_params"
SUB_PARAM_SHAPE, VOCAB_TENSOR = "sub_param_shape", "vocab_tensor"
PADDED_VOCAB_SIZE, ORIGINAL_VOCAB_SIZE = "padded_vocab_size", "original_vocab_size"
VOCABULARY_PARAMETER_PATTERNS = "vocabulary_parameter_patterns"
PIPELINE_REPLICATED_PARAMETER_PATTERNS = "pipeline_replicated_parameter_patterns"
PARAMETER_TO_AVERAGE_PATTERNS = "parameter_to_average_patterns"
PARAMETER_WITH_ROW_PARALLELISM_PATTERNS = "parameter_with_row_parallelism_patterns"
TP_REPLICATED_PARAMETER_PATTERNS = "tp_replicated_parameter_patterns"
PARAMETER_WITH_2_SUB_PARAMS_CAT_DIM_0 = "parameter_with_2_sub_params_cat_dim_0"
PARAMETER_WITH_SUB_PARAMS = "parameter_with_sub_params"
