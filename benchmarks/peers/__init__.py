"""What the comparison with other methods needs beside the product."""
