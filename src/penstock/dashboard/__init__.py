"""Shows a federation, or one job, on a web page that is served with the JSON interface.

``page`` serves the files of the page, ``live`` sends what has changed to whoever looks, and
``federation_figures`` says what there is to see of a federation.
"""
