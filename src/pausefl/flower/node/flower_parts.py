"""The parts of Flower's inside that a node calls or replaces; a Flower with other parts is refused."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pausefl.errors import ConfigError

_VERSION = "1.41."
_TASK, _EXECUTOR = "flwr.supernode.runtime.run_clientapp", "flwr.supercore.superexec.run_superexec"
_PARTS = {
    (_TASK, "run_clientapp"): "runtime_api_address token insecure certificates parent_pid runtime_dependency_install",
    (_TASK, "pull_task_input"): "client",
    (_TASK, "install_from_fab"): "fab_file install_dir skip_prompt",
    (_TASK, "get_project_dir"): "fab_id fab_version fab_hash",
    (_TASK, "get_load_client_app_fn"): "default_app_ref app_path multi_app",
    (_EXECUTOR, "get_executor"): "executor_type executor_config insecure root_certificates_path",
    (
        _EXECUTOR,
        "run_superexec",
    ): "runtime_api_address insecure root_certificates_path superexec_auth_secret plugin_config "
    "parent_pid health_server_address runtime_dependency_install executor_type executor_config",
    ("flwr.supernode.start_client_internal", "get_fused_config_from_fab"): "fab_file run",
    (
        "flwr.supernode.start_client_internal",
        "_pull_and_store_message",
    ): "state object_store node_config receive get_run get_fab pull_object confirm_message_received trusted_entities",
    (
        "flwr.supernode.nodestate.in_memory_nodestate",
        "InMemoryNodeState.get_message_processing_duration",
    ): "self message_id",
    (
        "flwr.supercore.protobuf.client",
        "ProtobufClient.__init__",
    ): "self base_url interceptors verify timeout retry_invoker",
    ("flwr.app.metadata", "validate_message_type"): "message_type",
    ("flwr.supercore.object_ref", "load_app"): "module_attribute_str error_type project_dir",
    ("flwr.cli.build", "build_fab_from_disk"): "app",
    ("flwr.supernode.cli.flower_supernode", "flower_supernode"): "",
    ("flwr.supernode.cli.flower_supernode", "_parse_args_run_supernode"): "",
}


def check_flower() -> None:
    """Refuse a Flower in which these parts are not what this code was written for."""
    found = version("flwr")
    if not found.startswith(_VERSION):
        raise ConfigError(f"flwr is {found}, but pausefl node is made for {_VERSION}x; run: pip install 'flwr==1.41.0'")
    for (module, name), parameters in _PARTS.items():
        part: Any = import_module(module)
        for one in name.split("."):
            part = getattr(part, one, None)
        if part is None or " ".join(inspect.signature(part).parameters) != parameters:
            raise ConfigError(f"{module}.{name} is not that of flwr 1.41.0; run: pip install 'flwr==1.41.0'")
