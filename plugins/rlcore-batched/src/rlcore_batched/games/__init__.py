"""Games for two players: Pong, in which both act at once, and board games, in which they take turns."""
