package contender

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
)

// containerOptions lists the options of Java in a container that Quarkus' own Dockerfile.jvm describes.
// All but the last come from its base image. bench/peers/quarkus/README.md names the sources. The
// Dockerfile also opens the metrics to other machines, and the contract demands loopback.
var containerOptions = []string{
	"-XX:MaxRAMPercentage=80.0", "-XX:+UseParallelGC", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=20",
	"-XX:GCTimeRatio=4", "-XX:AdaptiveSizePolicyWeight=90", "-XX:+ExitOnOutOfMemoryError",
	"-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
}

// mavenProgram is a Java program.
type mavenProgram struct {
	folder    string
	arguments []string // further arguments of Maven
	artifacts []string // the parts of the folder target to keep: jars, and folders of jars
	jar       string   // the jar to run
	libraries []string // the artifacts whose versions matter
	options   []string // the options of Java
	// archive is the file of an archive of classes in the folder of the jar (AppCDS), if the build makes one.
	archive string
}

func (mavenProgram) tools() []tool { return mavenTools }

func (m mavenProgram) build(ctx context.Context, b *builder, name string) (string, error) {
	if m.archive != "" { // The archive fits only exactly the Java that made it.
		java, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("get the version of java: %w", err)
		}
		sum := sha256.Sum256(java)
		name += fmt.Sprintf("-%x", sum[:4])
	}
	// Maven does not detect stale programs, so the hash of the source has to.
	program, err := b.once(ctx, name, m.folder, m.artifacts, func() error {
		return b.run(ctx, m.folder, "mvn", append([]string{"-q", "-B", "package", "-DskipTests"}, m.arguments...)...)
	})
	if err != nil || m.archive == "" {
		return program, err
	}
	return program, m.checkArchive(ctx, program)
}

// checkArchive returns an error if Java cannot use the archive. Without this check, Java would start
// without the archive and not say so.
func (m mavenProgram) checkArchive(ctx context.Context, program string) error {
	check := exec.CommandContext(ctx, "java", "-Xshare:on", "-XX:SharedArchiveFile="+m.archive, "-cp", filepath.Base(m.jar), "-version")
	check.Dir = m.home(program)
	if output, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("use the archive of classes %s: %w: %s; remove %s, and let JAVA_HOME and PATH name the same Java",
			filepath.Join(check.Dir, m.archive), err, output, program)
	}
	return nil
}

// home returns the folder of the jar.
func (m mavenProgram) home(program string) string {
	return filepath.Join(program, filepath.FromSlash(filepath.Dir(m.jar)))
}

func (m mavenProgram) command(program string, settings Settings) *exec.Cmd {
	command := exec.Command("java", m.options...)
	if settings.MemoryLimit > 0 {
		command.Args = append(command.Args, fmt.Sprint("-Xmx", settings.MemoryLimit))
	}
	if settings.Namespace != "" { // Programs that Contender.OneNamespace does not name ignore it.
		command.Env = append(command.Env, "QUARKUS_OPERATOR_SDK_NAMESPACES="+settings.Namespace)
	}
	if m.archive == "" {
		command.Args = append(command.Args, "-jar", filepath.Join(program, filepath.FromSlash(m.jar)))
		return command
	}
	// Java 17 uses an archive only for the same class path as when it was made, and that was relative.
	command.Dir = m.home(program)
	command.Args = append(command.Args, "-XX:SharedArchiveFile="+m.archive, "-jar", filepath.Base(m.jar))
	return command
}

func (m mavenProgram) version(ctx context.Context, b *builder, program string) (string, error) {
	return mavenVersion(ctx, b, program, m.libraries)
}
