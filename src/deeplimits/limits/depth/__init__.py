"""What the classifier of an infinitely deep fully-connected network is: mathematics on cosines, without estimators."""
