from .factory import executor as executor
