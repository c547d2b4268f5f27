"""`python -m headwater.demo`: a tour of the shipped tables."""

from headwater.demo.tour import main

if __name__ == "__main__":
    main()
