"""Shows a federation, or one job, on a web page that is served with the JSON interface.

``page`` serves the files of the page, ``live`` sends what has changed to whoever looks, and
``what_is_seen`` says what there is to see. ``job_page`` serves one job, as a federation of one
site.
"""
