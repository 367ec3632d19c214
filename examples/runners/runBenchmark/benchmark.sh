# Measures nothing: an example of what an entry may run.
echo "${1#--target=}: ${ROUNDS:-3} rounds"
