package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/spf13/cobra"
)

func newImage() *cobra.Command {
	var archive, name, program, bill string
	command := &cobra.Command{
		Use:   "image",
		Short: "Make the operator's container image, without Docker",
		Long: `Builds the operator and writes an image with nothing else in it, which runs as a user without
rights. Docker, Podman and containerd load the archive; ` + "`bellerophon cluster --load`" + ` does, too.
The same source and the same Go give the same bytes. The bill of materials in the format CycloneDX is
attached to the image in the archive, and is written beside it too.`,
		Example: `  bellerophon image --out operator.tar
  bellerophon image --name registry.example/bellerophon:v1 --program bin/bellerophon-operator
  bellerophon cluster --nodes real --load operator.tar`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if archive == "" {
				return fmt.Errorf("--out is empty; it is the file of the image")
			}
			if bill == "" {
				bill = strings.TrimSuffix(archive, filepath.Ext(archive)) + ".cdx.json"
			}
			if program == "" {
				folder, err := os.MkdirTemp("", "bellerophon-image-")
				if err != nil {
					return fmt.Errorf("build the operator: %w", err)
				}
				defer os.RemoveAll(folder)
				program = filepath.Join(folder, "bellerophon-operator")
				fmt.Fprintln(os.Stderr, "building the operator")
				if err := image.Compile(command.Context(), program); err != nil {
					return err
				}
			}
			id, err := image.Write(program, name, archive)
			if err != nil {
				return err
			}
			if err := image.WriteSBOM(program, bill); err != nil {
				return err
			}
			fmt.Printf("%s %s\n%s\n%s\n", name, id, archive, bill)
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&archive, "out", "bellerophon-operator.tar", "file of the image")
	flags.StringVar(&name, "name", image.DefaultName, "name and tag of the image")
	flags.StringVar(&program, "program", "", "static Linux program to put into the image; default it is built from the source")
	flags.StringVar(&bill, "sbom", "", "file of the bill of materials; default the file of the image with the ending .cdx.json")
	return command
}
