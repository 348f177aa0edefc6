// Command site renders the documents of a checkout as static HTML, and checks their links.
//
// The pages are README.md and all documents that links lead to from there. Nothing is written if a link, an anchor or
// an image is broken. The site needs neither a server nor a network.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `Site renders the documents of a checkout as static HTML, and checks each link, anchor and image.

  site --root . --out bin/site

`

func main() {
	root := flag.String("root", ".", "folder of the checkout")
	out := flag.String("out", "bin/site", "folder of the site, which must be empty or absent")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "site: unexpected argument %q; see --help\n", flag.Arg(0))
		os.Exit(2)
	}
	pages, err := run(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d pages: %s/index.html\n", pages, *out)
}

// run builds the site of a checkout and returns the number of its pages.
func run(root, out string) (pages int, err error) {
	checkout, err := os.OpenRoot(root)
	if err != nil {
		return 0, fmt.Errorf("opening the checkout: %w", err)
	}
	defer func() { err = errors.Join(err, checkout.Close()) }()
	site, err := build(checkout.FS())
	if err != nil {
		return 0, err
	}
	return len(site.pages), site.write(out)
}
