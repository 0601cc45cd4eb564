"""The HTTP side: sessions, checks of each request, streams of differences, actions, and the files of the page."""
