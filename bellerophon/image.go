package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/spf13/cobra"
)

// programs are the programs that have an image, by their name on the command line.
var programs = map[string]image.Program{"operator": image.Operator, "server": image.Server}

func newImage() *cobra.Command {
	var archive, of, name, program, bill string
	command := &cobra.Command{
		Use:   "image",
		Short: "Make the container image of the operator, of the server or of your program, without Docker",
		Long: `Builds a program and writes an image with nothing else in it, which runs as a user without
rights. Docker, Podman and containerd load the archive; ` + "`bellerophon cluster --load`" + ` does, too.
The same source and the same Go give the same bytes. The bill of materials in the format CycloneDX is
attached to the image in the archive, and is written beside it too.`,
		Example: `  bellerophon image --out operator.tar
  bellerophon image --of server
  bellerophon image --of . --name shop:v1
  bellerophon image --name registry.example/bellerophon:v1 --program bin/bellerophon-operator
  bellerophon cluster --nodes real --load operator.tar`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			what, known := programs[of]
			standard := "bellerophon-" + of + ".tar"
			if !known {
				if !filepath.IsAbs(of) && !strings.HasPrefix(of, ".") {
					return fmt.Errorf("--of is %q; allowed are operator, server, and a folder that begins with . or /", of)
				}
				if what, err = image.ProgramIn(command.Context(), of); err != nil {
					return err
				}
				standard = what.Name() + ".tar"
			}
			if !command.Flags().Changed("out") {
				archive = standard
			}
			if archive == "" {
				return fmt.Errorf("--out is empty; it is the file of the image")
			}
			if name == "" {
				name = what.Image
			}
			if bill == "" {
				bill = strings.TrimSuffix(archive, filepath.Ext(archive)) + ".cdx.json"
			}
			if program == "" {
				folder, err := os.MkdirTemp("", "bellerophon-image-")
				if err != nil {
					return fmt.Errorf("build the %s: %w", of, err)
				}
				defer os.RemoveAll(folder)
				program = filepath.Join(folder, what.Name())
				fmt.Fprintln(os.Stderr, "building "+what.Name())
				if err := what.Compile(command.Context(), program); err != nil {
					return err
				}
			}
			id, err := what.Write(program, name, archive)
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
	flags.StringVar(&of, "of", "operator", "the program: operator, server, which is the key-value store, or the folder of a Go program of yours, such as .")
	flags.StringVar(&archive, "out", "", "file of the image; default the name of the program with the ending .tar")
	flags.StringVar(&name, "name", "", "name and tag of the image; default the one that the chart or the kind asks for, and the tag dev for a program of yours")
	_ = command.RegisterFlagCompletionFunc("of", cobra.FixedCompletions([]string{"operator", "server"}, cobra.ShellCompDirectiveNoFileComp))
	flags.StringVar(&program, "program", "", "static Linux program to put into the image; default it is built from the source")
	flags.StringVar(&bill, "sbom", "", "file of the bill of materials; default the file of the image with the ending .cdx.json")
	return command
}
