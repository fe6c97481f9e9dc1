from hypothesis import settings

settings.register_profile("penstock", max_examples=1000, deadline=None, derandomize=True)
settings.load_profile("penstock")
