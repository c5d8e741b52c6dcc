"""What a corpus tells before anybody asks: its digest, its themes and what changes while one watches."""
