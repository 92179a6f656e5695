"""Names skidpad's environments to Gymnasium, which calls this on its own import: nothing of them is imported before one is made."""

from gymnasium.envs.registration import register

_ENVIRONMENTS = {"Lane-v0": "skidpad.worlds.lane_env:Lane", "Duel-v0": "skidpad.highway.gym_env:Duel"}


def register_environments() -> None:
    """Registers skidpad/Lane-v0 and skidpad/Duel-v0."""
    for name, where in _ENVIRONMENTS.items():
        register(f"skidpad/{name}", f"{where}Env", vector_entry_point=f"{where}VectorEnv")
