from discreet._cli import main

main()
