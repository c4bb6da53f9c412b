"""The sample album: 240 drawn scenes, near-duplicates and faulty files, with all facts about them.

In: the files of data/ (data/README.md describes how they were made), each checked against data/sha256.txt. Out: the
images with their facts, and the tables and annotations for the sets of the demo.

In reading order: album.py reads the data; fitting_images.py finds the scenes that show what a query asks for. The demo:
album_files.py writes the album and answers instead of a model, demo_search.py runs two search services on the album,
scripted_person.py judges a search log and certifies a set whose facts are known. stand_in_servers.py: a caption
endpoint and a search for the tutorial of docs/first-hour.md.
"""
