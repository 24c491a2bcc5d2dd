"""Mutation testing of the derivatives: break every rule in every small way, and see the test suite notice.

    python -m tests.mutation                         all mutants, a table in mutants.md
    python -m tests.mutation --only linalg --jobs 2  those of one file
    python -m tests.mutation --again mutants.md      all, each first by the test that killed it before: quicker
    python -m tests.mutation --list                  only say what would be changed
    python -m tests.mutation --doubt                 run those called harmless: a test that fails refutes one
    python -m tests.mutation --judged                print the table JUDGED for the code as it is

What is mutated stands in ``targets``, what was found to be no mistake in ``harmless``.

A *mutant* is the engine with one small mistake in it: a sign flipped, a term or factor dropped, a product become
a sum, two saved values swapped, a comparison < become ≤, the cotangent ignored, a gradient written where it should
be added, …  If some test fails, the mutant is *killed*.  One that survives is a mistake that nobody would notice:
the suite is then to be made stronger, or the change makes no difference, and ``HARMLESS`` says why.

*No difference* means: equal numbers, up to rounding, and the same errors, whatever the inputs (also of size 0, of
another dtype, infinite or NaN) and at every order, for cotangents that are finite.  Time, memory and the sign of
a zero may differ.  Such a judgement is about the code that was read, so ``JUDGED`` holds a digest of each
function that has one.  Where the function has changed since, its harmless changes are run like any others and the
function is reported as stale, as is every entry of the tables that no longer finds what it names.

How it is done: the package and the tests are copied, imported and collected once.  One run of all tests notes
which of them execute which function: only those can notice a change there.  Then, for each mutant, the process
forks; the child puts the mutated code into the living function (``function.__code__``) and runs those tests until
one fails.  First of all a child runs every test with nothing changed: a failure there would prove nothing, so such
a test is left out.  It forks, so it is for POSIX systems; the project itself runs anywhere.
"""
