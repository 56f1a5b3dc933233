"""The environments of the Feedback paper (Fan et al., 2020, sections 4.1.1, 6.1 and 7), for gymnasium. Importing this
package registers them.

Each is written once, for many copies at a time, in numpy (``world.py``). A single environment is one copy.
"""

import gymnasium

for name, where, settings in [
    ("Corridor-v0", "corridor:Corridor", {}),
    ("MazeNavigation-v0", "maze_navigation:MazeNavigation", {}),
    ("MazeNavigationEasy-v0", "maze_navigation:MazeNavigationEasy", {}),
    ("WaterMaze-v0", "water_maze:WaterMaze", {"view": "where"}),  # stays for the agents that were trained in it
    ("WaterMaze-v1", "water_maze:WaterMaze", {}),
]:
    gymnasium.register(
        f"fairseq_plugins/{name}",
        entry_point="fairseq_plugins.agents.environments.envs:SingleEnvironment",
        vector_entry_point="fairseq_plugins.agents.environments.envs:VectorEnvironment",
        kwargs={"world": f"fairseq_plugins.agents.environments.{where}", **settings},
    )
