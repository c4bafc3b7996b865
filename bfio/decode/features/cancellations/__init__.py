"""Clients that give up: their requests leave, wherever they are."""
