from .pools import executor as executor
