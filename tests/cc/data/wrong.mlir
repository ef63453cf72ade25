no module
